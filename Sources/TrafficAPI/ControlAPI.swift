import HTTPTypes
import Hummingbird
import NIOCore
import Synchronization
import TrafficAudit
import TrafficDocuments
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
    /// The middleware sets these when it knows them. Until then the viewer has the fewest rights.
    var viewer = Viewer.network
    var payer = Payer.thisHost
    /// Whether the client may still read an answer.
    var isClientThere: @Sendable () -> Bool = { true }

    var endConnection: @Sendable () -> Void { { [channel] in channel.close(promise: nil) } }

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
        /// - Parameters:
        ///   - names: Names that clients may use for this host, besides its addresses and `localhost`.
        ///   - places: Knows who pays for a connection.
        case network(names: Set<String>, tokens: AccessTokens = AccessTokens(), places: ConnectionPlaces? = nil)
        /// Every client is this viewer; for tests.
        case fixed(Viewer)
    }

    /// - Parameter question: Asks history.
    private static func asking<Report>(_ question: () async throws -> Report) async throws -> Report {
        do {
            return try await question()
        } catch let refusal as HistoryRefusal {
            throw Problem(refusal)
        }
    }

    static func router(
        source: any ReadingSource,
        cost: any CostSource,
        history: (any HistorySource)? = nil,
        alerts: any AlertSource,
        answers: UnreadAnswers = UnreadAnswers(),
        measured: LastMeasurement = LastMeasurement(),
        receivers: @escaping @Sendable () -> [PushStatus] = { [] },
        streams: StreamSlots = StreamSlots(limit: 64),
        access: Access
    ) -> Router<ControlContext> {
        let router = Router(context: ControlContext.self, options: .autoGenerateHeadEndpoints)
        let (awaited, awaitedMetrics) = (AwaitedReading<Reading>(), AwaitedReading<MetricsReading>())
        router.middlewares.add(ProblemMiddleware())
        switch access {
        case .network(let names, _, _): router.middlewares.add(HostMiddleware(names: names))
        // A browser reaches control.sock too, through ssh.
        case .credentials: router.middlewares.add(HostMiddleware(names: [], takesPlainNames: true))
        case .fixed: break
        }
        router.middlewares.add(ViewerMiddleware(access: access))

        for file in PageFile.all {
            // All clients have the same bytes.
            let bytes = ByteBuffer(bytes: file.bytes)
            router.get(RouterPath(file.path)) { _, _ in Response(file, bytes) }
        }
        router.get("/healthz") { request, _ in
            _ = try QueryParameters(request, known: [])
            guard source.isReady else { throw Problem.noSnapshotYet }
            return Response(
                status: .ok,
                headers: [.contentType: ExportFormat.json.mediaType],
                body: ResponseBody(byteBuffer: ByteBuffer(string: "{\"status\":\"ok\"}\n"))
            )
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
                return try await answers.response(to: request, context, format.mediaType, of: source, awaited) {
                    reading in
                    query.apply(to: reading).encoded(as: format, table: view.table)
                }
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
            if request.method == .head {
                return Response(status: .ok, headers: [.contentType: ExportFormat.ndjson.mediaType])
            }
            let slot = try streams.take(for: context.payer, end: context.endConnection)
            let eventLoop = context.channel.eventLoop
            let body = ResponseBody(interval: interval, of: source, to: request, on: eventLoop, in: slot) {
                let answer = try? await answers.answer(
                    to: request,
                    context,
                    ExportFormat.ndjson.mediaType,
                    read: {
                        guard let reading = source.newest else { throw CancellationError() }
                        return reading
                    },
                    awaited: awaited,
                    takenAt: { $0.snapshot.takenBoottimeNanoseconds }
                ) { reading in
                    query.apply(to: reading).encoded(as: .json, table: query.view.table)
                }
                return answer.flatMap { answer in answer.takenAt.map { (answer, $0) } }
            }
            return Response(status: .ok, headers: [.contentType: ExportFormat.ndjson.mediaType], body: body)
        }
        router.get("/v1/exchanges") { request, context in
            let parameters = try QueryParameters(request, known: ["filter", "format"])
            let filter = try parameters.filter()
            let format = try parameters.word("format", fallback: ExportFormat.json)
            guard context.viewer != .network else { throw Problem.socketsWithheld }
            return try await answers.response(to: request, context, format.mediaType, of: source, awaited) { reading in
                ExchangeReport(reading.visible(to: context.viewer).filtered(by: filter)).encoded(as: format)
            }
        }
        router.get("/v1/history") { request, context in
            let known = ["bucket", "by", "filter", "format", "limit", "since", "until"]
            let parameters = try QueryParameters(request, known: known)
            let question = try parameters.historyQuestion(from: context.viewer)
            let format = try parameters.word("format", fallback: ExportFormat.json)
            guard let history else { throw Problem.noHistory }
            let report = try await Self.asking { try await history.answer(question) }
            return try await answers.response(context, format.mediaType, about: report) { $0.encoded(as: format) }
        }
        router.get("/v1/history/month") { request, context in
            let known = ["class", "exceeding", "format", "month", "scope"]
            let parameters = try QueryParameters(request, known: known)
            let question = try parameters.monthQuestion(from: context.viewer)
            let format = try parameters.word("format", fallback: ExportFormat.json)
            guard let history else { throw Problem.noHistory }
            let report = try await Self.asking { try await history.answer(question) }
            return try await answers.response(context, format.mediaType, about: report) { $0.encoded(as: format) }
        }
        router.get("/v1/alerts") { request, context in
            let format = try QueryParameters(request, known: ["format"]).word("format", fallback: ExportFormat.json)
            guard context.viewer == .administrator else { throw Problem.alertsWithheld }
            return await answers.response(context, format.mediaType, alerts.alerts().encoded(as: format))
        }
        router.get("/v1/alerts/changes") { request, context in
            let parameters = try QueryParameters(request, known: ["after"])
            let position = try parameters.alertPosition("after")
            guard context.viewer == .administrator else { throw Problem.alertsWithheld }
            if request.method == .head {
                return Response(status: .ok, headers: [.contentType: ExportFormat.ndjson.mediaType])
            }
            let slot = try streams.take(for: context.payer, end: context.endConnection)
            return Response(
                status: .ok,
                headers: [.contentType: ExportFormat.ndjson.mediaType],
                body: ResponseBody(alertsAfter: position, of: alerts, to: request, in: slot)
            )
        }
        router.get("/metrics") { request, context in
            let hasCreated = try QueryParameters(request, known: ["created"]).flag("created")
            let format = MetricsFormat(accepting: request.headers[.accept])
            // A user who sees only programs of their own gets neither the cost nor the receivers.
            let isEverybody = if case .user = context.viewer { false } else { true }
            let (cost, push) = isEverybody ? (measured.cost, receivers()) : (nil, [])
            let answer = try await answers.answer(
                to: request,
                context,
                format.mediaType,
                // Administrators see no more of metrics than all clients over TCP.
                sharedBy: isEverybody ? .network : context.viewer,
                read: {
                    if let reading = await source.freshMetrics() { return reading }
                    throw source.isReady ? Problem.sweepTooSlow : Problem.noSnapshotYet
                },
                awaited: awaitedMetrics,
                takenAt: { UInt64(clamping: $0.takenAt.nanosecondsSinceEpoch) }
            ) { reading in
                MetricsDocument(reading.visible(to: context.viewer), cost: cost, process: OwnProcess.now(), push: push)
                    .encoded(as: format, hasCreated: hasCreated)
            }
            return Response(
                status: .ok,
                headers: [.contentType: format.mediaType, .vary: "Accept"],
                body: ResponseBody(answer, on: context.channel.eventLoop)
            )
        }
        router.get("/v1/audit") { request, context in
            let parameters = try QueryParameters(request, known: ["interface", "process", "socket"])
            let subject = try parameters.auditSubject()
            guard context.viewer != .network else { throw Problem.socketsWithheld }
            let reading = try await source.freshOrProblem()
            return try await answers.response(
                context,
                ExportFormat.json.mediaType,
                about: reading,
                awaited: awaited,
                time: { $0.snapshot.takenBoottimeNanoseconds }
            ) { reading in
                do throws(AuditError) {
                    let report = try AuditReport(of: subject, in: reading, for: context.viewer)
                    return report.json() + [UInt8(ascii: "\n")]
                } catch {
                    throw Problem(error)
                }
            }
        }
        router.get("/v1/doctor") { request, context in
            let time = try QueryParameters(request, known: ["cost"]).seconds("cost", atMost: 10)
            guard source.isReady else { throw Problem.noSnapshotYet }
            guard time == nil || context.viewer == .administrator else { throw Problem.costWithheld }
            let cost = try await cost.measure(nanoseconds: time, for: request)
            if let cost { measured.keep(cost) }
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
                cost: cost
            )
            let json = report.json() + [UInt8(ascii: "\n")]
            var response = await answers.response(context, ExportFormat.json.mediaType, json)
            // To notice the end of the connection, `measure` reads the stream from which a next request would come. So
            // this connection can't serve a next request.
            if cost != nil { response.headers[.connection] = "close" }
            return response
        }
        return router
    }
}

extension UnreadAnswers {
    /// - Parameters:
    ///   - viewer: One who sees the same; `nil`: the viewer of the request.
    ///   - read: Takes the reading that the answer is about.
    ///   - takenAt: When the reading was taken.
    fileprivate func answer<Value: Sendable>(
        to request: Request,
        _ context: ControlContext,
        _ mediaType: String,
        sharedBy viewer: Viewer? = nil,
        read: () async throws -> Value,
        awaited: AwaitedReading<Value>,
        takenAt: (Value) -> UInt64,
        _ make: @escaping @Sendable (Value) -> [UInt8]
    ) async throws -> Answer {
        try await self.answer(
            for: context.payer,
            isWanted: context.isClientThere,
            read: read,
            awaited: awaited,
            content: { reading in
                Content(
                    takenAt: takenAt(reading),
                    target: request.uri.string,
                    mediaType: mediaType,
                    viewer: viewer ?? context.viewer
                )
            },
            make
        )
    }

    /// What all who ask at the same moment share.
    fileprivate func response(
        to request: Request,
        _ context: ControlContext,
        _ mediaType: String,
        of source: any ReadingSource,
        _ awaited: AwaitedReading<Reading>,
        _ make: @escaping @Sendable (Reading) -> [UInt8]
    ) async throws -> Response {
        let answer = try await self.answer(
            to: request,
            context,
            mediaType,
            read: { try await source.freshOrProblem() },
            awaited: awaited,
            takenAt: { $0.snapshot.takenBoottimeNanoseconds },
            make
        )
        return Response(answer, mediaType, to: context)
    }

    /// What nobody shares, and what takes a turn.
    fileprivate func response<Value: Sendable>(
        _ context: ControlContext,
        _ mediaType: String,
        about reading: consuming Value,
        awaited: AwaitedReading<Value> = AwaitedReading(),
        time: (Value) -> UInt64 = { _ in 0 },
        _ make: (Value) throws -> [UInt8]
    ) async throws -> Response {
        let answer = try await self.answer(
            for: context.payer,
            isWanted: context.isClientThere,
            about: reading,
            awaited: awaited,
            time: time,
            make
        )
        return Response(answer, mediaType, to: context)
    }

    /// A small answer.
    fileprivate func response(_ context: ControlContext, _ mediaType: String, _ bytes: [UInt8]) async -> Response {
        let answer = await self.answer(for: context.payer, bytes)
        return Response(answer, mediaType, to: context)
    }
}

/// What the programs in the kernel cost at the last measurement. It is in the metrics until the next one.
final class LastMeasurement: Sendable {
    private let state = Mutex<MeasuredCost?>(nil)

    var cost: MeasuredCost? { self.state.withLock { $0 } }

    func keep(_ cost: CaptureCost) { self.state.withLock { $0 = MeasuredCost(cost, at: .now()) } }
}

extension Response {
    fileprivate init(_ answer: UnreadAnswers.Answer, _ mediaType: String, to context: ControlContext) {
        self.init(
            status: .ok,
            headers: [.contentType: mediaType],
            body: ResponseBody(answer, on: context.channel.eventLoop)
        )
    }

    fileprivate init(_ file: PageFile, _ bytes: ByteBuffer) {
        self.init(
            status: .ok,
            headers: [
                .contentType: file.mediaType, .contentSecurityPolicy: PageFile.contentSecurityPolicy,
                .referrerPolicy: "no-referrer", .crossOriginOpenerPolicy: "same-origin",
            ],
            body: ResponseBody(byteBuffer: bytes)
        )
    }
}

extension ReadingSource {
    fileprivate func freshOrProblem() async throws(Problem) -> Reading {
        if let reading = await self.fresh() { return reading }
        throw self.isReady ? .sweepTooSlow : .noSnapshotYet
    }
}

extension HTTPField.Name {
    /// Of the HTML standard: a site that opened the page may not lead it elsewhere.
    fileprivate static var crossOriginOpenerPolicy: Self { Self("Cross-Origin-Opener-Policy")! }

    /// Of W3C's Referrer Policy.
    fileprivate static var referrerPolicy: Self { Self("Referrer-Policy")! }
}
