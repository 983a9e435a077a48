/// What is known of the route of a request.
package enum RouteAnswer: Hashable, Sendable {
    /// The app's own name of it, such as `/users/{id}`.
    case template(String)
    /// The app has a router, and that did not name it: there is nothing at its path, or it was never asked.
    case unmatched
    /// Nobody but its path says it: there is no router, or a file of that name was the answer.
    case path
}

/// What a server's router calls the requests of one connection.
package protocol RouteSource: AnyObject {
    /// Asked once, when the server answers.
    ///
    /// - Parameter number: Of the request on its connection, from 1; with HTTP/2 its stream's.
    func takeRoute(ofRequest number: Int) -> RouteAnswer
}
