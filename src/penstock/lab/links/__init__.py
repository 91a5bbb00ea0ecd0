"""Links between real brokers that are as narrow, slow or broken as an experiment wants them."""
