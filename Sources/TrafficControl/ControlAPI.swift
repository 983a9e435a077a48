import HTTPTypes
package import Hummingbird
import Logging
import NIOCore
import TrafficExport
import TrafficModel

/// A request on its way, and who sent it.
package struct ControlContext: RequestContext {
    package var coreContext: CoreRequestContextStorage
    let channel: any Channel
    /// Set by the middleware that knows. Until then the least of all.
    var viewer = Viewer.network

    package init(source: ApplicationRequestContextSource) {
        self.coreContext = CoreRequestContextStorage(source: source)
        self.channel = source.channel
    }
}

/// The control API: GET and HEAD only, from snapshots only.
package enum ControlAPI {
    /// How a listener tells who asks.
    package enum Access: Sendable {
        /// By the kernel's credentials of the connection.
        case credentials(AccessRule)
        /// Not at all.
        ///
        /// - Parameter names: What clients may call this host beside its addresses and `localhost`.
        case network(names: Set<String>)
        /// Everyone is this one; for tests.
        case fixed(Viewer)
    }

    package static func router(
        source: any SnapshotSource,
        cost: any CostSource,
        access: Access
    ) -> Router<ControlContext> {
        let router = Router(context: ControlContext.self, options: .autoGenerateHeadEndpoints)
        router.middlewares.add(ProblemMiddleware())
        if case .network(let names) = access { router.middlewares.add(HostMiddleware(names: names)) }
        router.middlewares.add(ViewerMiddleware(access: access))

        router.get("/healthz") { request, _ in
            _ = try QueryParameters(request, known: [])
            guard source.latest != nil else { throw Problem.noSnapshotYet }
            return Response.document(Array("{\"status\":\"ok\"}\n".utf8), mediaType: ExportFormat.json.mediaType)
        }
        for view in SnapshotView.allCases {
            router.get("/v1/\(view.rawValue)") { request, context in
                let known = ["filter", "format", "sockets_of"] + (view == .endpoints ? ["by"] : [])
                let parameters = try QueryParameters(request, known: known)
                let query = try SnapshotQuery(
                    view: view,
                    filter: parameters.filter(),
                    socketsOf: parameters.pids("sockets_of"),
                    grouping: parameters.word("by", fallback: .route),
                    viewer: context.viewer
                )
                let format = try parameters.word("format", fallback: ExportFormat.json)
                guard let snapshot = await source.fresh() else { throw Problem.noSnapshotYet }
                return Response.document(
                    query.apply(to: snapshot).encoded(as: format, table: view.table),
                    mediaType: format.mediaType
                )
            }
        }
        router.get("/v1/stream") { request, context in
            let parameters = try QueryParameters(request, known: ["filter", "interval", "sockets_of", "view"])
            let query = try SnapshotQuery(
                view: parameters.word("view", fallback: .snapshot),
                filter: parameters.filter(),
                socketsOf: parameters.pids("sockets_of"),
                viewer: context.viewer
            )
            let interval = try parameters.seconds("interval", atMost: 3600)
            guard source.latest != nil else { throw Problem.noSnapshotYet }
            return Response(
                status: .ok,
                headers: [.contentType: ExportFormat.ndjson.mediaType],
                body: ResponseBody(lines: query, interval: interval, of: source, to: request)
            )
        }
        router.get("/v1/exchanges") { request, context in
            let parameters = try QueryParameters(request, known: ["filter", "format"])
            let filter = try parameters.filter()
            let format = try parameters.word("format", fallback: ExchangeFormat.json)
            guard context.viewer != .network else { throw Problem.socketsWithheld }
            guard let snapshot = await source.fresh() else { throw Problem.noSnapshotYet }
            let report = ExchangeReport(snapshot.visible(to: context.viewer).filtered(by: filter))
            return switch format {
            case .json: Response.document(report.json() + [UInt8(ascii: "\n")], mediaType: ExportFormat.json.mediaType)
            case .ndjson: Response.document(report.ndjson(), mediaType: ExportFormat.ndjson.mediaType)
            }
        }
        router.get("/v1/audit") { request, context in
            let parameters = try QueryParameters(request, known: ["interface", "process", "socket"])
            let subject = try parameters.auditSubject()
            guard context.viewer != .network else { throw Problem.socketsWithheld }
            guard let snapshot = await source.fresh() else { throw Problem.noSnapshotYet }
            do throws(AuditError) {
                let report = try AuditReport(of: subject, in: snapshot, for: context.viewer)
                return Response.document(report.json() + [UInt8(ascii: "\n")], mediaType: ExportFormat.json.mediaType)
            } catch {
                throw Problem(error)
            }
        }
        router.get("/v1/doctor") { request, context in
            let time = try QueryParameters(request, known: ["cost"]).seconds("cost", atMost: 10)
            guard source.latest != nil else { throw Problem.noSnapshotYet }
            guard time == nil || context.viewer == .administrator else { throw Problem.costWithheld }
            let measured = try await cost.measure(nanoseconds: time, for: request)
            // After the wait, so that losses of this time are in it.
            guard let snapshot = source.latest else { throw Problem.noSnapshotYet }
            let report = DoctorReport(
                capture: snapshot.capture,
                daemon: snapshot.daemon,
                host: snapshot.host,
                checks: source.checks(),
                cost: measured
            )
            var response = Response.document(
                report.json() + [UInt8(ascii: "\n")],
                mediaType: ExportFormat.json.mediaType
            )
            // Whoever watches a connection for its end has read what a next request would be read from.
            if measured != nil { response.headers[.connection] = "close" }
            return response
        }
        return router
    }
}

/// The formats of the list of exchanges.
private enum ExchangeFormat: String, CaseIterable {
    case json, ndjson
}

extension Response {
    fileprivate static func document(_ bytes: [UInt8], mediaType: String) -> Response {
        Response(status: .ok, headers: [.contentType: mediaType], body: ResponseBody(bytes))
    }
}

/// Answers what no route answers, and says what is wrong as a ``Problem``.
private struct ProblemMiddleware: RouterMiddleware {
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
        } catch {
            context.logger.error("request failed", metadata: ["path": "\(request.uri.path)", "error": "\(error)"])
            let problem = Problem(status: .internalServerError, detail: "The daemon's log says what happened.")
            response = try problem.response(from: request, context: context)
        }
        response.headers[.cacheControl] = "no-store"
        response.headers[.xContentTypeOptions] = "nosniff"
        return request.method == .head ? response.createHeadResponse() : response
    }
}

/// Finds out who asks.
private struct ViewerMiddleware: RouterMiddleware {
    let access: ControlAPI.Access

    func handle(
        _ request: Request,
        context: ControlContext,
        next: (Request, ControlContext) async throws -> Response
    ) async throws -> Response {
        var context = context
        switch self.access {
        case .fixed(let viewer): context.viewer = viewer
        case .network: context.viewer = .network
        case .credentials(let rule):
            // Also where the client is gone already: who can't be named gets nothing.
            guard let peer = try? await PeerCredentials(of: context.channel) else {
                throw Problem(status: .forbidden, detail: "The connection does not say whose it is.")
            }
            context.viewer = rule.viewer(for: peer)
        }
        return try await next(request, context)
    }
}
