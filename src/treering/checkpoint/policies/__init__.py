"""The default policy, and the walk along a path that all policies share.

`treering.checkpoint.policy` imports a module of policies when one of its names is first looked up. Each module
registers its policies and views at its end.
"""
