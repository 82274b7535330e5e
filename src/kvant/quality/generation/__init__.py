"""Long generations: do texts written over a quantised cache degenerate, and does its error grow?"""
