"""The foundation: schemas, frozen shapes, canonical JSON, failure classes and limits."""
