"""Words that generated tasks are made of."""

from __future__ import annotations

NAMES = (
    "Adela", "Boris", "Clara", "Dmitri", "Elena", "Farid", "Greta", "Hassan", "Ingrid", "Jonas", "Keiko",
    "Lars", "Marta", "Nadia", "Otto", "Petra", "Ravi", "Sofia", "Tomas", "Ursula", "Viktor", "Wanda",
)  # fmt: skip
THINGS = (
    "anchor", "beacon", "copper", "drawer", "ember", "funnel", "garnet", "harbor", "island", "jacket",
    "kernel", "ladder", "magnet", "needle", "orchid", "pepper", "quartz", "ribbon", "saddle", "tunnel",
)  # fmt: skip
DEEDS = ("paints", "repairs", "cleans", "moves", "sells", "opens", "measures", "orders")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
