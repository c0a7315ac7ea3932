"""The policies that come with Treering: our own, and those of the programs whose sessions we read.

`treering.checkpoint.policy` imports a module here when one of its names is first asked for. Each module registers its
policies and views at its end.
"""
