"""What both halves stand on: registries, options, schema, studies, stored files, progress."""
