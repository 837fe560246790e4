"""PRIVATE: one file for each kind of table; `dpstats.records.source.as_source` is the door to all of them."""
