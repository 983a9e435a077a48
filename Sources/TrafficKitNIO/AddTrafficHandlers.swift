public import NIOCore
public import TrafficKit

extension ChannelPipeline.SynchronousOperations {
    /// Counts the HTTP messages of a connection from here on.
    ///
    /// Call this function while no message is under way: in a bootstrap's initializer, or when the connection is made
    /// and its TLS handshake is over. In the latter case the time of the handshake's end is unknown, so a client's
    /// first exchange has no phases `connect` and `tls`.
    ///
    /// If the monitor runs without a listener, the connection is not counted until there is a listener. A connection of
    /// HTTP/2 is then never counted, and for ``TrafficHTTPHandler/Version/http2`` the function adds no handler.
    ///
    /// - Parameters:
    ///   - role: Whether this process sends the requests (client) or receives them (server).
    ///   - version: The HTTP version that the connection speaks.
    ///   - monitor: The monitor that gets the reports.
    ///   - tls: The TLS handler of this pipeline, if the connection has TLS.
    ///   - routes: The names that a server's router gives the requests of this connection.
    public func addTrafficHandlers(
        role: TrafficHTTPHandler.Role,
        version: TrafficHTTPHandler.Version = .http1,
        monitor: TrafficMonitor = .shared,
        behind tls: (any ChannelHandler)? = nil,
        routes: TrafficRoutes? = nil
    ) throws {
        try self.addTrafficHandlers(
            role: role,
            version: version,
            monitor: monitor,
            behind: tls,
            tlsEndedAt: 0,
            routes: routes
        )
    }

    /// - Parameter tlsEndedAt: When the client's TLS handshake ended. 0: the handshake is still to come, or the time is
    ///   unknown.
    /// - Returns: Whether the connection is counted, or may be later.
    @discardableResult
    package func addTrafficHandlers(
        role: TrafficHTTPHandler.Role,
        version: TrafficHTTPHandler.Version,
        monitor: TrafficMonitor,
        behind tls: (any ChannelHandler)?,
        tlsEndedAt: UInt64,
        routes: TrafficRoutes? = nil
    ) throws -> Bool {
        let counter = tls.map { _ in TrafficTLSHandler() }
        let handler = TrafficHTTPHandler(role: role, version: version, monitor: monitor, tls: counter, routes: routes)
        guard handler.isOfUse else { return false }
        guard let tls, let counter else {
            try self.addHandler(handler, position: .first)
            return true
        }
        handler.tlsEndedAt = tlsEndedAt
        try self.addHandler(counter, position: .first)
        try self.addHandler(handler, position: .after(tls))
        return true
    }
}
