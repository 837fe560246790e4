"""PRIVATE: the only zone that touches rows."""
