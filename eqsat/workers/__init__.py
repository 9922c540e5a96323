"""Worker processes for native code that can crash, leak or hang."""
