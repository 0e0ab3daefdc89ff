"""The artifact cache: keys are pure functions of content, the store is bytes on disk."""
