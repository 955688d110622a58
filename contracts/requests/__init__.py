"""What may be asked: from bytes to a request, its payload and the host action that it names."""
