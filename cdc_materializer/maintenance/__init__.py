"""What keeps tables small and quick to read: facts, a plan with its cost, and steps that are whole or not there."""
