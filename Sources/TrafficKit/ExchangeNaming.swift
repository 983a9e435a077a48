package import TrafficReport

/// What exchanges are called, and which of them the app keeps out.
package protocol ExchangeNaming: AnyObject {
    /// A number for an exchange of this process.
    func makeExchange() -> UInt64

    /// Asked when a request has come whose name is not known yet.
    ///
    /// - Returns: `false`: it is kept out.
    func admits(_ request: HTTP1Head.Request) -> Bool

    /// - Returns: `nil`: it is kept out, now if not before.
    func name(of request: HTTP1Head.Request, _ route: RouteAnswer) -> Report.Name?
}
