"""Sessions of Operator-Use."""
