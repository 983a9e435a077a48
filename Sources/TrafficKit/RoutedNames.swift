import TrafficReport

/// The names of a server's exchanges by their routes, which are few: a connection asks for the same ones, whatever the paths.
struct RoutedNames {
    private var last: (method: String, host: String, template: String, name: Report.Name)?

    /// - Parameters:
    ///   - template: What the router calls it.
    ///   - make: The name of this request by this template.
    mutating func name(
        of request: HTTP1Head.Request,
        _ template: String,
        _ make: () -> Report.Name?
    ) -> Report.Name? {
        if let last, last.template == template, last.method == request.method, last.host == request.host {
            return last.name
        }
        guard let name = make() else { return nil }
        self.last = (request.method, request.host, template, name)
        return name
    }
}
