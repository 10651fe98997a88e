"""What the commands read: images, those of them that can be used, and tables of numbers."""
