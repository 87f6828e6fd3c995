"""The parts of the transformers engine. Only ``rounds`` touches anything private of transformers."""
