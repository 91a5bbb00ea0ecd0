"""Links between real brokers, as narrow, slow or broken as an experiment wants them."""
