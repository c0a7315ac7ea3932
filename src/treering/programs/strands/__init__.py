"""Sessions of Strands Agents, as its own session managers keep them."""
