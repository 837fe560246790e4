"""The recipes in which the zones meet, one file per method.

`dpme`, `fp` and `truncated` are baselines for experiments.
"""

from dpstats.mechanisms.histogram import BaselineFit, dpme, fp, truncated

__all__ = ["BaselineFit", "dpme", "fp", "truncated"]
