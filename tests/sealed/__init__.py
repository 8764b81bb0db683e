"""Tests in real rootless containers: what holds the agent in, tried from inside."""
