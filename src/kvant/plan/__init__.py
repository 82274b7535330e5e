"""How many requests fit, how fast they can be answered, and what that is worth: `kvant plan`.

geometry      what a model keeps for every token, layer by layer (read from config.json by `model`)
precision     bytes of a token in one layer: ours from `kvant.formats`, vLLM's own from its code
pages         how vLLM turns layers into blocks: the bytes of one, and how many a request takes
hardware      memory, bandwidth, power and example prices, from YAML
contexts      how long requests are: flags, a histogram, or live traffic
fit           memory -> blocks -> requests, limits and the speed that bandwidth allows
roi           instances, energy, money; what the answer hangs on

Arithmetic alone: it imports no framework, and a test holds it against a running engine.
"""
