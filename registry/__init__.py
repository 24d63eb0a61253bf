"""The approved registry: who may receive ratings, where, and the one door outward."""
