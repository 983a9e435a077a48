package import TrafficKit
package import TrafficReport

/// Names exchanges by the fixed rules, and numbers them from 1.
package final class NumberedExchanges: ExchangeNaming {
    package var excluded: String?
    private var last: UInt64 = 0

    /// - Parameter excluded: A target to keep out, with all targets below it.
    package init(excluding excluded: String? = nil) {
        self.excluded = excluded
    }

    package func makeExchange() -> UInt64 {
        self.last += 1
        return self.last
    }

    package func admits(_ request: MessageHead.Request) -> Bool {
        self.excluded.map { request.target != $0 && !request.target.hasPrefix($0 + "/") } ?? true
    }

    package func name(of request: MessageHead.Request, _ route: RouteAnswer) -> Report.Name? {
        guard self.admits(request) else { return nil }
        let template: String? =
            switch route {
            case .template(let template): template
            case .unmatched: "_unmatched"
            case .path: nil
            }
        let route = RouteNaming().route(of: request.target, template: template)
        return Report.Name(method: request.method, host: request.host, route: route)
    }
}
