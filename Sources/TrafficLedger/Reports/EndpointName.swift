import TrafficModel
import TrafficReport

/// The name of a row within its process group.
struct EndpointName: Hashable, Codable {
    var role: EndpointRole
    var subject: EndpointSubject

    init(_ role: EndpointRole, _ subject: EndpointSubject) {
        self.role = role
        self.subject = subject
    }

    /// - Parameter name: A name that is ``TrafficReport/Report/Name/bounded``.
    init(_ role: Report.Role, _ name: Report.Name) {
        self.init(EndpointRole(role), .route(host: name.host, route: name.route))
    }

    /// The row of the host, of which this row is a part.
    var host: EndpointName {
        guard case .route(let host, _) = self.subject else { return self }
        return EndpointName(self.role, .host(host))
    }

    /// The row in which everything beyond the group's limit adds up.
    var other: EndpointName { EndpointName(self.role, self.subject.other) }
}

extension Report.Name {
    /// The name, with each part cut that is longer than the limits. Names stay in memory as long as exchanges and rows
    /// do.
    var bounded: Report.Name {
        let limits = ReportLimits.self
        // In native strings, these counts are stored numbers.
        guard
            self.method.utf8.count > limits.longestMethod || self.host.utf8.count > limits.longestHost
                || self.route.utf8.count > limits.longestRoute
        else { return self }
        return Report.Name(
            method: self.method.cut(to: limits.longestMethod),
            host: self.host.cut(to: limits.longestHost),
            route: self.route.cut(to: limits.longestRoute)
        )
    }
}

extension String {
    /// - Parameter limit: In bytes.
    fileprivate func cut(to limit: Int) -> String {
        guard self.utf8.count > limit else { return self }
        var end = self.utf8.index(self.startIndex, offsetBy: limit)
        while end.samePosition(in: self.unicodeScalars) == nil { end = self.utf8.index(before: end) }
        return String(self[..<end])
    }
}
