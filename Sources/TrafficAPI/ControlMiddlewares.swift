import HTTPTypes
import Hummingbird
import Logging
import TrafficPage

/// Answers requests that no route answers, and turns errors into a ``Problem``.
struct ProblemMiddleware: RouterMiddleware {
    func handle(
        _ request: Request,
        context: ControlContext,
        next: (Request, ControlContext) async throws -> Response
    ) async throws -> Response {
        var response: Response
        do {
            guard request.method == .get || request.method == .head else {
                throw Problem(
                    status: .methodNotAllowed,
                    detail: "\(request.method.rawValue) is not possible: this API only reads.",
                    headers: [.allow: "GET, HEAD"]
                )
            }
            response = try await next(request, context)
        } catch let problem as Problem {
            response = try problem.response(from: request, context: context)
        } catch let error as HTTPError where error.status == .notFound {
            response = try Problem.notFound(request.uri.path).response(from: request, context: context)
        } catch is CancellationError {
            // Nobody wants the answer: its client has left, or the daemon stops.
            response = try Problem.tooManyRequests.response(from: request, context: context)
        } catch {
            context.logger.error("request failed", metadata: ["path": "\(request.uri.path)", "error": "\(error)"])
            let problem = Problem(status: .internalServerError, detail: "The daemon's log says what happened.")
            response = try problem.response(from: request, context: context)
        }
        response.headers[.cacheControl] = "no-store"
        response.headers[.xContentTypeOptions] = "nosniff"
        // An answer with numbers is no page. Names of hostile programs are in it, and a browser must take them for text.
        if response.headers[.contentSecurityPolicy] == nil {
            response.headers[.contentSecurityPolicy] = "default-src 'none'; frame-ancestors 'none'"
        }
        response.headers[.crossOriginResourcePolicy] = "same-origin"
        return request.method == .head ? response.createHeadResponse() : response
    }
}

/// Finds the viewer of a request, and who pays for its answer.
struct ViewerMiddleware: RouterMiddleware {
    let access: ControlAPI.Access

    func handle(
        _ request: Request,
        context: ControlContext,
        next: (Request, ControlContext) async throws -> Response
    ) async throws -> Response {
        var context = context
        switch self.access {
        case .fixed(let viewer):
            context.viewer = viewer
            if case .user(let uid) = viewer { context.payer = Payer(uid: uid) }
        // The page itself has no numbers, and asks for the token.
        case .network where PageFile.isPath(request.uri.path): context.viewer = .network
        case .network(_, let tokens, let places):
            guard let viewer = tokens.viewer(for: request.headers[.authorization]) else { throw Problem.tokenMissing }
            context.viewer = viewer
            if let places {
                // Another connection got the place of this one.
                guard let payer = await places.payer(of: context.channel) else { throw Problem.tooManyRequests }
                context.payer = payer
            }
        case .credentials(let rule):
            // Also if the client is gone already: a client without credentials gets nothing.
            guard let peer = try? await PeerCredentials(of: context.channel) else {
                throw Problem(status: .forbidden, detail: "The connection does not say whose it is.")
            }
            context.viewer = rule.viewer(for: peer)
            context.payer = Payer(uid: peer.uid)
        }
        if context.viewer == .administrator { context.payer = .administrators }
        // A test without a server has a channel, but no connection.
        let isServed = if case .fixed = self.access { false } else { true }
        context.isClientThere = { [channel = context.channel] in !isServed || channel.isActive }
        return try await next(request, context)
    }
}

extension HTTPField.Name {
    /// Of the Fetch standard.
    fileprivate static var crossOriginResourcePolicy: Self {
        Self("Cross-Origin-Resource-Policy")!
    }
}
