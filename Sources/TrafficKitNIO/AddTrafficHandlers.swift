public import NIOCore
public import TrafficKit

extension ChannelPipeline.SynchronousOperations {
    /// Counts the HTTP messages of a connection from here on.
    ///
    /// To be called where no message is under way: in a bootstrap's initializer, or when the connection is made and its TLS handshake is over.
    /// In the latter case nobody knows when it was over: a client's first exchange then has no phases `connect` and `tls`.
    ///
    /// Where the monitor runs without a listener the connection is not counted until there is one, and HTTP/2 never, for which nothing is added.
    ///
    /// - Parameters:
    ///   - role: Whether requests go out or come in here.
    ///   - version: What it speaks.
    ///   - monitor: What is told.
    ///   - tls: The TLS handler of this pipeline, if the connection has TLS.
    ///   - routes: What a server's router calls the requests of this connection.
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

    /// - Parameter tlsEndedAt: When the client's TLS handshake was over; 0: it is still to come, or nobody knows.
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
