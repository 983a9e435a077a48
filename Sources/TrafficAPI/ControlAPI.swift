import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import TrafficAudit
import TrafficExport
import TrafficFeed
import TrafficMetrics
import TrafficModel
import TrafficPage
import TrafficQuery

/// A request that the server is answering, and its viewer.
struct ControlContext: RequestContext {
    var coreContext: CoreRequestContextStorage
    let channel: any Channel
    /// The middleware sets this when it knows the viewer. Until then the viewer has the fewest rights.
    var viewer = Viewer.network

    init(source: ApplicationRequestContextSource) {
        self.coreContext = CoreRequestContextStorage(source: source)
        self.channel = source.channel
    }
}

/// The control API: only GET and HEAD, and answers only from snapshots.
enum ControlAPI {
    /// How a listener finds the viewer of a request.
    enum Access: Sendable {
        /// By the credentials that the kernel has for the connection.
        case credentials(AccessRule)
        /// By the token that it sends.
        ///
        /// - Parameter names: Names that clients may use for this host, besides its addresses and `localhost`.
        case network(names: Set<String>, tokens: AccessTokens = AccessTokens())
        /// Every client is this viewer; for tests.
        case fixed(Viewer)
    }

    static func router(
        source: any ReadingSource,
        cost: any CostSource,
        history: (any HistorySource)? = nil,
        alerts: any AlertSource,
        metrics: MetricsTexts = MetricsTexts(),
        receivers: @escaping @Sendable () -> [PushStatus] = { [] },
        streams: StreamSlots = StreamSlots(limit: 64),
        access: Access
    ) -> Router<ControlContext> {
        let router = Router(context: ControlContext.self, options: .autoGenerateHeadEndpoints)
        router.middlewares.add(ProblemMiddleware())
        switch access {
        case .network(let names, _): router.middlewares.add(HostMiddleware(names: names))
        // A browser reaches control.sock too, through ssh.
        case .credentials: router.middlewares.add(HostMiddleware(names: [], takesPlainNames: true))
        case .fixed: break
        }
        router.middlewares.add(ViewerMiddleware(access: access))

        for file in PageFile.all { router.get(RouterPath(file.path)) { _, _ in Response(file) } }
        router.get("/healthz") { request, _ in
            _ = try QueryParameters(request, known: [])
            guard source.isReady else { throw Problem.noSnapshotYet }
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
                let reading = try await source.freshOrProblem()
                return Response.document(
                    query.apply(to: reading).encoded(as: format, table: view.table),
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
            guard source.isReady else { throw Problem.noSnapshotYet }
            let slot = try streams.take()
            return Response(
                status: .ok,
                headers: [.contentType: ExportFormat.ndjson.mediaType],
                body: ResponseBody(lines: query, interval: interval, of: source, to: request, in: slot)
            )
        }
        router.get("/v1/exchanges") { request, context in
            let parameters = try QueryParameters(request, known: ["filter", "format"])
            let filter = try parameters.filter()
            let format = try parameters.word("format", fallback: ExportFormat.json)
            guard context.viewer != .network else { throw Problem.socketsWithheld }
            let reading = try await source.freshOrProblem()
            let report = ExchangeReport(reading.visible(to: context.viewer).filtered(by: filter))
            return Response.document(report.encoded(as: format), mediaType: format.mediaType)
        }
        router.get("/v1/history") { request, context in
            let known = ["bucket", "by", "filter", "format", "limit", "since", "until"]
            let parameters = try QueryParameters(request, known: known)
            let question = try parameters.historyQuestion(from: context.viewer)
            let format = try parameters.word("format", fallback: ExportFormat.json)
            guard let history else { throw Problem.noHistory }
            return try await Response.document(as: format) { try await history.answer(question) }
        }
        router.get("/v1/history/month") { request, context in
            let known = ["class", "exceeding", "format", "month", "scope"]
            let parameters = try QueryParameters(request, known: known)
            let question = try parameters.monthQuestion(from: context.viewer)
            let format = try parameters.word("format", fallback: ExportFormat.json)
            guard let history else { throw Problem.noHistory }
            return try await Response.document(as: format) { try await history.answer(question) }
        }
        router.get("/v1/alerts") { request, context in
            let format = try QueryParameters(request, known: ["format"]).word("format", fallback: ExportFormat.json)
            guard context.viewer == .administrator else { throw Problem.alertsWithheld }
            return Response.document(alerts.alerts().encoded(as: format), mediaType: format.mediaType)
        }
        router.get("/v1/alerts/changes") { request, context in
            let parameters = try QueryParameters(request, known: ["after"])
            let position = try parameters.alertPosition("after")
            guard context.viewer == .administrator else { throw Problem.alertsWithheld }
            let slot = try streams.take()
            return Response(
                status: .ok,
                headers: [.contentType: ExportFormat.ndjson.mediaType],
                body: ResponseBody(alertsAfter: position, of: alerts, to: request, in: slot)
            )
        }
        router.get("/metrics") { request, context in
            let hasCreated = try QueryParameters(request, known: ["created"]).flag("created")
            guard let reading = await source.freshMetrics() else {
                throw source.isReady ? Problem.sweepTooSlow : Problem.noSnapshotYet
            }
            let format = MetricsFormat(accepting: request.headers[.accept])
            let text = await metrics.text(of: reading, as: format, hasCreated: hasCreated, for: context.viewer)
            return Response(
                status: .ok,
                headers: [.contentType: format.mediaType, .vary: "Accept"],
                body: ResponseBody(text)
            )
        }
        router.get("/v1/audit") { request, context in
            let parameters = try QueryParameters(request, known: ["interface", "process", "socket"])
            let subject = try parameters.auditSubject()
            guard context.viewer != .network else { throw Problem.socketsWithheld }
            let reading = try await source.freshOrProblem()
            do throws(AuditError) {
                let report = try AuditReport(of: subject, in: reading, for: context.viewer)
                return Response.document(report.json() + [UInt8(ascii: "\n")], mediaType: ExportFormat.json.mediaType)
            } catch {
                throw Problem(error)
            }
        }
        router.get("/v1/doctor") { request, context in
            let time = try QueryParameters(request, known: ["cost"]).seconds("cost", atMost: 10)
            guard source.isReady else { throw Problem.noSnapshotYet }
            guard time == nil || context.viewer == .administrator else { throw Problem.costWithheld }
            let measured = try await cost.measure(nanoseconds: time, for: request)
            if let measured { metrics.keep(measured) }
            // Read after the wait, so that the reading has the losses of that time.
            let reading = try await source.freshOrProblem()
            // As in /metrics: a user who sees only programs of their own does not see the receivers.
            let receivers = if case .user = context.viewer { [PushStatus]() } else { receivers() }
            let report = DoctorReport(
                capture: reading.snapshot.capture,
                daemon: reading.snapshot.daemon,
                host: reading.snapshot.host,
                checks: source.checks()
                    + receivers.map { $0.check(tellsReason: context.viewer == .administrator) },
                limits: source.limits,
                cost: measured
            )
            var response = Response.document(
                report.json() + [UInt8(ascii: "\n")],
                mediaType: ExportFormat.json.mediaType
            )
            // To notice the end of the connection, `measure` reads the stream from which a next request would come. So
            // this connection can't serve a next request.
            if measured != nil { response.headers[.connection] = "close" }
            return response
        }
        return router
    }
}

extension Response {
    /// - Parameter report: Asks history.
    fileprivate static func document(
        as format: ExportFormat,
        _ report: () async throws -> some ListDocument
    ) async throws -> Response {
        do {
            return .document(try await report().encoded(as: format), mediaType: format.mediaType)
        } catch let refusal as HistoryRefusal {
            throw Problem(refusal)
        }
    }

    fileprivate static func document(_ bytes: [UInt8], mediaType: String) -> Response {
        Response(status: .ok, headers: [.contentType: mediaType], body: ResponseBody(bytes))
    }

    fileprivate init(_ file: PageFile) {
        self.init(
            status: .ok,
            headers: [
                .contentType: file.mediaType, .contentSecurityPolicy: PageFile.contentSecurityPolicy,
                .referrerPolicy: "no-referrer", .crossOriginOpenerPolicy: "same-origin",
            ],
            body: ResponseBody(file.bytes)
        )
    }
}

/// Answers requests that no route answers, and turns errors into a ``Problem``.
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
        // An answer with numbers is no page. Names of hostile programs are in it, and a browser must take them for text.
        if response.headers[.contentSecurityPolicy] == nil {
            response.headers[.contentSecurityPolicy] = "default-src 'none'; frame-ancestors 'none'"
        }
        response.headers[.crossOriginResourcePolicy] = "same-origin"
        return request.method == .head ? response.createHeadResponse() : response
    }
}

/// Finds the viewer of a request.
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
        // The page itself has no numbers, and asks for the token.
        case .network where PageFile.isPath(request.uri.path): context.viewer = .network
        case .network(_, let tokens):
            guard let viewer = tokens.viewer(for: request.headers[.authorization]) else { throw Problem.tokenMissing }
            context.viewer = viewer
        case .credentials(let rule):
            // Also if the client is gone already: a client without credentials gets nothing.
            guard let peer = try? await PeerCredentials(of: context.channel) else {
                throw Problem(status: .forbidden, detail: "The connection does not say whose it is.")
            }
            context.viewer = rule.viewer(for: peer)
        }
        return try await next(request, context)
    }
}

extension ReadingSource {
    fileprivate func freshOrProblem() async throws(Problem) -> Reading {
        if let reading = await self.fresh() { return reading }
        throw self.isReady ? .sweepTooSlow : .noSnapshotYet
    }
}

extension HTTPField.Name {
    /// Of the Fetch standard.
    fileprivate static var crossOriginResourcePolicy: Self {
        Self("Cross-Origin-Resource-Policy")!
    }

    /// Of the HTML standard: a site that opened the page may not lead it elsewhere.
    fileprivate static var crossOriginOpenerPolicy: Self { Self("Cross-Origin-Opener-Policy")! }

    /// Of W3C's Referrer Policy.
    fileprivate static var referrerPolicy: Self { Self("Referrer-Policy")! }
}
