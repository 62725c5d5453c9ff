"""How weights become traffic: `gateway_api` and `replicas`. Pure."""
