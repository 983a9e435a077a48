import FoundationEssentials
import HTTPTypes
import Hummingbird
import NIOCore

/// An error as `application/problem+json` (RFC 9457). `title` is the status in words, and `detail` says what is wrong
/// with this request.
struct Problem: Error, HTTPResponseError {
    var status: HTTPResponse.Status
    var detail: String
    /// The query parameter that caused the error.
    var parameter: String?
    var headers: HTTPFields = [:]

    private struct Body: Encodable {
        var title: String
        var status: Int
        var detail: String
        var parameter: String?
    }

    func response(from request: Request, context: some RequestContext) throws -> Response {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        let body = Body(
            title: self.status.reasonPhrase,
            status: self.status.code,
            detail: self.detail,
            parameter: self.parameter
        )
        var headers = self.headers
        headers[.contentType] = "application/problem+json"
        return Response(
            status: self.status,
            headers: headers,
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: try encoder.encode(body)))
        )
    }

    static func badParameter(_ name: String, _ detail: String) -> Problem {
        Problem(status: .badRequest, detail: "\(name): \(detail)", parameter: name)
    }

    static let noSnapshotYet = Problem(
        status: .serviceUnavailable,
        detail: "Nothing is counted yet: the daemon has just started. Try again in a second.",
        headers: [.retryAfter: "1"]
    )

    static let sweepTooSlow = Problem(
        status: .serviceUnavailable,
        detail: "The daemon is too busy to answer in time, and goes on counting. Try again in a second.",
        headers: [.retryAfter: "1"]
    )

    static let tooManyStreams = Problem(
        status: .serviceUnavailable,
        detail: "There are as many streams as the daemon serves, to all or to one client. Try again in some seconds.",
        headers: [.retryAfter: "5"]
    )

    static let tooManyRequests = Problem(
        status: .tooManyRequests,
        detail: "As many requests wait as the daemon takes, of all or of one client. Try again in a second.",
        headers: [.retryAfter: "1"]
    )

    static let socketsWithheld = Problem(
        status: .forbidden,
        detail: "Sockets and exchanges are for callers of control.sock, and for clients with the administrators' token."
    )

    static let costWithheld = Problem(
        status: .forbidden,
        detail:
            "Measuring what counting costs slows the machine a little: only root and the socket's group may, on control.sock, or clients with the administrators' token."
    )

    static let alertsWithheld = Problem(
        status: .forbidden,
        detail:
            "Alerts are about all users: they are for root and the socket's group, on control.sock, and for clients with the administrators' token."
    )

    static let severalHosts = Problem(status: .badRequest, detail: "The request has more than one Host field.")

    static func malformedHost(_ authority: String) -> Problem {
        Problem(
            status: .badRequest,
            detail: "The request's host '\(authority.prefix(100))' is no HOST, HOST:PORT or [ADDRESS]:PORT."
        )
    }

    static func otherHost(_ authority: String) -> Problem {
        let name = authority.isEmpty ? "no host" : "'\(authority.prefix(100))'"
        return Problem(
            status: .misdirectedRequest,
            detail:
                "The request names \(name): call this host by its address or localhost, or start trafficd with --allow-host NAME."
        )
    }

    static func otherOrigin(_ origin: String) -> Problem {
        Problem(
            status: .forbidden,
            detail: "A page of '\(origin.prefix(100))' asks, and this API answers only pages of its own."
        )
    }

    static let tokenMissing = Problem(
        status: .unauthorized,
        detail:
            "This daemon wants a token: Authorization: Bearer TOKEN. trafficctl sends one with --api-token-file FILE.",
        headers: [.wwwAuthenticate: "Bearer"]
    )

    static func notFound(_ path: String) -> Problem {
        Problem(status: .notFound, detail: "There is nothing at \(path).")
    }
}
