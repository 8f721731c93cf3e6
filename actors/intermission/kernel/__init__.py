"""What actors stand on: the actor base, replies, clocks."""
