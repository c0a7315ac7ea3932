"""Agent frameworks that keep their sessions in Treering. Importing this loads none of them."""
