"""Launches of a decode step, counted in a profiler's trace: docs/launches.md."""
