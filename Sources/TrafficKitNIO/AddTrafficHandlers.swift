public import NIOCore
public import TrafficKit

extension ChannelPipeline.SynchronousOperations {
    /// Counts the HTTP/1.x messages of a connection from here on.
    ///
    /// To be called where no message is under way: in a bootstrap's initializer, or when the connection is made and its TLS handshake is over.
    ///
    /// - Parameters:
    ///   - role: Whether requests go out or come in here.
    ///   - monitor: What is told.
    ///   - tls: The TLS handler of this pipeline, if the connection has TLS.
    public func addTrafficHandlers(
        role: TrafficHTTP1Handler.Role,
        monitor: TrafficMonitor = .shared,
        behind tls: (any ChannelHandler)? = nil
    ) throws {
        guard let tls else {
            return try self.addHandler(TrafficHTTP1Handler(role: role, monitor: monitor), position: .first)
        }
        let counter = TrafficTLSHandler()
        try self.addHandler(counter, position: .first)
        try self.addHandler(TrafficHTTP1Handler(role: role, monitor: monitor, tls: counter), position: .after(tls))
    }
}
