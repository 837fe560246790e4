"""The doors that users open, one public function per file."""
