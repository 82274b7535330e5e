"""Long generations: do texts that a model writes over a quantised cache degenerate, and does its error grow?"""
