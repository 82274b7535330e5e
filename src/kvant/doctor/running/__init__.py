"""What is wrong with a service that runs? It is asked, loaded for some seconds, and watched meanwhile.

To add a check: a function in `checks/` under `@service_check`, taking the `Patient` and yielding `Finding`s.
What cannot be measured is a finding of level unknown that says why; nothing is guessed.
"""
