"""The gateway: Envoy, configured from the HTTPRoutes, Services and EndpointSlices of the cluster.

Run it with ``python -m devcluster.gateway --kubeconfig FILE --dir DIR --port P --admin-port A``.
"""
