package import TrafficReport

/// Makes the names of exchanges, and decides which of them the app keeps out.
package protocol ExchangeNaming: AnyObject {
    /// Makes a number for an exchange of this process.
    func makeExchange() -> UInt64

    /// Called when a request has come whose name is not known yet.
    ///
    /// - Returns: `false`: the app keeps the exchange out.
    func admits(_ request: MessageHead.Request) -> Bool

    /// - Returns: `nil`: the app keeps the exchange out, even if ``admits(_:)`` has returned `true` before.
    func name(of request: MessageHead.Request, _ route: RouteAnswer) -> Report.Name?
}
