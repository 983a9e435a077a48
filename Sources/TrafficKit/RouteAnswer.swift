/// What the library knows of the route of a request.
package enum RouteAnswer: Hashable, Sendable {
    /// The app's own route, such as `/users/{id}`.
    case template(String)
    /// The app's router gave no route: it knows no such path, or the server did not ask it.
    case unmatched
    /// Only the path is known: the app has no router, or the server answered with a file of that name.
    case path
}

/// Gives the routes that a server's router has for the requests of one connection.
package protocol RouteSource: AnyObject {
    /// Called once for each request, when the server answers.
    ///
    /// - Parameter number: The request's number on its connection, from 1; with HTTP/2 the number of its stream.
    func takeRoute(ofRequest number: Int) -> RouteAnswer
}
