package import TrafficReport

/// The names of a server's exchanges by their routes, which are few: a connection asks for the same ones.
package struct RoutedNames {
    private var last = Report.Name.none
    /// What that was made of.
    private var origin = Report.Name.none

    package init() {}

    /// - Parameters:
    ///   - name: By the request.
    ///   - template: What the router calls it.
    package mutating func name(_ name: Report.Name, _ template: String) -> Report.Name {
        if !self.isLast(name, template) {
            self.last = Report.Name(method: name.method, host: name.host, route: template)
            self.origin = name
        }
        return self.last
    }

    private func isLast(_ name: Report.Name, _ template: String) -> Bool {
        guard self.last.route == template else { return false }
        return self.origin.isIdentical(to: name) || (self.last.host, self.last.method) == (name.host, name.method)
    }
}
