"""What Treering costs on this machine: `python -m benchmarks` measures, prints and writes a report.

Costs that are the same everywhere (requests, bytes, system calls) are asserted by tests; times are only measured here.
"""
