import TrafficModel
import TrafficReport

/// A row within its process group.
struct EndpointName: Hashable {
    /// RFC 1035 section 2.3.4.
    private static let longestHost = 253
    private static let longestRoute = 256

    var role: EndpointRole
    var subject: EndpointSubject

    init(_ role: EndpointRole, _ subject: EndpointSubject) {
        self.role = role
        self.subject = subject
    }

    /// Cut where a program sends longer names than there can be.
    init(_ role: Report.Role, host: String, route: String) {
        self.role = EndpointRole(role)
        self.subject = .route(host: host.cut(to: Self.longestHost), route: route.cut(to: Self.longestRoute))
    }

    /// The row that this one is a part of.
    var host: EndpointName {
        guard case .route(let host, _) = self.subject else { return self }
        return EndpointName(self.role, .host(host))
    }

    /// Where what exceeds the limit of its group adds up.
    var other: EndpointName { EndpointName(self.role, self.subject.other) }
}

extension String {
    /// - Parameter limit: Bytes.
    func cut(to limit: Int) -> String {
        guard self.utf8.count > limit else { return self }
        var end = self.utf8.index(self.startIndex, offsetBy: limit)
        while end.samePosition(in: self.unicodeScalars) == nil { end = self.utf8.index(before: end) }
        return String(self[..<end])
    }
}
