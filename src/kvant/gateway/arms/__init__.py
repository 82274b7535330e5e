"""The engines behind the gateway: arms, their replicas, and the connections to them."""
