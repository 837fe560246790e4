"""The door between private and public: all noise is drawn here."""
