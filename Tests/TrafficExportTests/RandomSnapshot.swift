import TestSupport
import TrafficDocuments
import TrafficLimits
import TrafficModel

/// Seeded snapshots with every field present, absent, extreme and hostile.
struct RandomSnapshot {
    var generator: Seeded

    init(seed: UInt64) {
        self.generator = Seeded(seed)
    }

    static let hostileTexts = [
        "", "nginx", "a\"b\\c", "\u{0}\u{1}\u{1f}\u{7f}", "tab\tline\nreturn\r", "\u{2028}\u{2029}\u{85}\u{9b}31m",
        "👩‍👩‍👧‍👦 é e\u{301} \u{202e}", "=1+1", "@SUM(A1)", "-2", "+3", "a,b;c", "'", "\u{feff}", "\u{10ffff}\u{d7ff}\u{e000}",
        "</script>", "null", "%s%n", "\u{1b}[2J", "\t=1", "\r", "\"",
    ]

    mutating func chance() -> Bool { Bool.random(using: &self.generator) }

    mutating func maybe<Value>(_ make: (inout Self) -> Value) -> Value? {
        self.chance() ? make(&self) : nil
    }

    mutating func pick<Value>(_ values: [Value]) -> Value {
        values[Int.random(in: 0..<values.count, using: &self.generator)]
    }

    mutating func text() -> String {
        self.pick(Self.hostileTexts) + (self.chance() ? self.pick(Self.hostileTexts) : "")
    }

    mutating func count() -> UInt64 {
        self.pick([
            0, 1, 9, 10, 65_535, 1 << 32, 1 << 53 + 1, .max, UInt64.random(in: 0...(.max), using: &self.generator),
        ])
    }

    mutating func rate() -> Double {
        self.pick([
            0, 1, 0.1, 1e15, 1e16, 1e300, .leastNonzeroMagnitude, Double.random(in: 0...1e9, using: &self.generator),
        ])
    }

    mutating func time() -> Timestamp {
        Timestamp(
            nanosecondsSinceEpoch: Int64.random(in: -1_000_000_000...4_000_000_000_000, using: &self.generator)
                * 1_000_000
        )
    }

    mutating func payload() -> PayloadBytes { PayloadBytes(sent: self.count(), received: self.count()) }

    mutating func bytes() -> ByteCounts {
        ByteCounts(
            payload: self.payload(),
            pendingSent: self.count(),
            wireSent: self.maybe { $0.count() },
            wireReceived: self.maybe { $0.count() },
            wireEstimated: self.maybe { $0.count() } ?? 0,
            retransmitted: self.maybe { $0.count() }
        )
    }

    mutating func rates() -> PayloadRates { PayloadRates(sent: self.rate(), received: self.rate()) }

    mutating func identity() -> ProcessIdentity {
        ProcessIdentity(pid: self.pick([0, 1, 4242, .max]), startBoottimeNanoseconds: self.count())
    }

    mutating func address() -> SocketAddress {
        let texts = [
            "0.0.0.0", "::", "127.0.0.1", "::1", "255.255.255.255", "2001:db8::1:0:0:1", "fe80::1", "::ffff:10.0.0.1",
        ]
        return SocketAddress(
            address: InternetAddress(self.pick(texts)) ?? InternetAddress(bytes: .init(repeating: 1)),
            port: self.pick([0, 80, 65_535])
        )
    }

    mutating func process() -> ProcessUsage {
        ProcessUsage(
            identity: self.identity(),
            details: ProcessDetails(
                name: self.text(),
                executable: self.maybe { $0.text() },
                commandLine: self.maybe { random in (0..<random.pick([0, 1, 3])).map { _ in random.text() } },
                uid: self.pick([0, 1000, .max]),
                user: self.maybe { $0.text() },
                systemdUnit: self.maybe { $0.text() },
                containerID: self.maybe { $0.text() },
                cgroup: self.maybe { $0.text() },
                networkNamespace: self.maybe { $0.pick([0, .max]) },
                startedAt: self.maybe { $0.time() }
            ),
            state: self.pick([.running, .exited]),
            exitedAt: self.maybe { $0.time() },
            socketsOpen: self.pick([0, 7]),
            bytes: self.bytes(),
            rates: self.rates(),
            explained: self.count(),
            endpoints: self.maybe { $0.list { $0.processEndpoint() } }
        )
    }

    private mutating func processEndpoint() -> ProcessEndpoint {
        ProcessEndpoint(
            role: self.pick(EndpointRole.allCases),
            host: self.text(),
            route: self.text(),
            requests: self.count(),
            responses: self.count(),
            failures: self.count(),
            sent: self.count(),
            received: self.count(),
            quality: self.pick(JoinQuality.allCases)
        )
    }

    mutating func socket() -> SocketUsage {
        var socket = SocketUsage(
            cookie: SocketCookie(rawValue: self.count()),
            transport: self.pick(TransportProtocol.allCases),
            family: self.pick([.ipv4, .ipv6]),
            local: self.address(),
            remote: self.address(),
            role: self.pick(SocketRole.allCases),
            scope: self.maybe { $0.pick(SocketScope.allCases) },
            addressClass: self.maybe { $0.className() },
            state: self.pick(SocketState.allCases),
            openedAt: self.maybe { $0.time() },
            closedAt: self.maybe { $0.time() },
            preexisting: self.chance(),
            networkNamespace: self.maybe { $0.pick([0, .max]) },
            bytes: self.bytes(),
            rates: self.rates(),
            segmentsSent: self.maybe { $0.count() },
            segmentsReceived: self.maybe { $0.count() },
            retransmittedSegments: self.maybe { $0.count() },
            smoothedRoundTripMicroseconds: self.maybe { $0.count() },
            connectMicroseconds: self.maybe { $0.count() },
            wireQuality: self.maybe { $0.pick([.exact, .derived, .estimated]) },
            owners: self.list {
                var owner = SocketUsage.Owner(identity: $0.identity(), payload: $0.payload())
                owner.isFormer = $0.pick([true, false])
                return owner
            }
        )
        socket.explained = self.count()
        return socket
    }

    /// The only texts of a snapshot that have fixed values.
    mutating func className() -> String { self.pick(["paid", "-", "_1", "transit-2_b", "0"]) }

    mutating func list<Element>(_ make: (inout Self) -> Element) -> [Element] {
        (0..<self.pick([0, 1, 4])).map { _ in make(&self) }
    }

    mutating func capture() -> CaptureStatus {
        CaptureStatus(
            method: self.pick(CaptureMethod.allCases),
            reason: self.maybe { $0.text() },
            hooks: self.list { $0.text() },
            blindSpots: self.list { $0.text() },
            loss: CaptureLoss(
                ringFull: self.count(),
                mapFull: self.count(),
                countersBackwards: self.count(),
                missedRuns: self.count(),
                readsFailed: self.count(),
                uncountedNanoseconds: self.count()
            )
        )
    }

    mutating func host() -> HostDescription {
        HostDescription(
            name: self.text(),
            bootID: self.text(),
            kernel: self.text(),
            timeZone: self.maybe { $0.text() }
        )
    }

    mutating func daemon() -> DaemonDescription {
        DaemonDescription(version: self.text(), pid: 17, startedAt: self.time())
    }

    mutating func messageBytes() -> MessageBytes {
        MessageBytes(
            line: self.count(),
            header: self.count(),
            cookie: self.count(),
            body: self.count(),
            framing: self.count(),
            tls: self.count()
        )
    }

    mutating func group() -> ProcessGroup {
        ProcessGroup(
            name: self.text(),
            executable: self.maybe { $0.text() },
            systemdUnit: self.maybe { $0.text() },
            containerID: self.maybe { $0.text() },
            uid: self.maybe { $0.pick([0, .max]) }
        )
    }

    mutating func endpoint() -> EndpointUsage {
        EndpointUsage(
            process: self.group(),
            role: self.pick(EndpointRole.allCases),
            subject: self.pick([
                .route(host: self.text(), route: self.text()), .host(self.text()),
                .content(self.pick(ContentClass.allCases)),
            ]),
            requests: self.count(),
            responses: self.count(),
            outcomes: self.words { $0.count() },
            repeated: self.count(),
            sent: self.messageBytes(),
            received: self.messageBytes(),
            decodedBody: self.maybe { $0.count() },
            wireEstimated: self.count(),
            waste: .init(failed: self.count(), throttled: self.count(), redirected: self.count()),
            content: self.words { $0.count() },
            duration: self.maybe {
                .init(count: $0.count(), p50: $0.count(), p90: $0.count(), p99: $0.count(), max: $0.count())
            },
            phases: self.words { .init(count: $0.count(), sum: $0.count(), max: $0.count()) },
            quality: self.pick(JoinQuality.allCases)
        )
    }

    mutating func exchange() -> ExchangeUsage {
        ExchangeUsage(
            process: self.identity(),
            processName: self.text(),
            exchange: self.count(),
            chain: self.maybe { $0.count() },
            hop: self.pick([0, .max]),
            role: self.pick(EndpointRole.allCases),
            method: self.text(),
            version: self.maybe { $0.pick(HTTPVersion.allCases) },
            host: self.text(),
            route: self.text(),
            status: self.maybe { $0.pick([200, .max]) },
            outcome: self.maybe { $0.pick(ExchangeOutcome.allCases) },
            startedAt: self.time(),
            duration: self.maybe { $0.count() },
            phases: self.words { $0.count() },
            request: self.maybe { $0.messageBytes() },
            response: self.maybe { $0.messageBytes() },
            cookie: self.maybe { SocketCookie(rawValue: $0.count()) },
            quality: self.pick(JoinQuality.allCases)
        )
    }

    private mutating func words<Word: CaseIterable & Hashable, Value>(
        _ value: (inout RandomSnapshot) -> Value
    ) -> [Word: Value] {
        var words: [Word: Value] = [:]
        for word in Word.allCases where self.chance() { words[word] = value(&self) }
        return words
    }

    mutating func snapshot() -> Snapshot {
        Snapshot(
            takenAt: self.time(),
            takenBoottimeNanoseconds: self.count(),
            countingSince: self.time(),
            host: self.host(),
            daemon: self.daemon(),
            capture: self.capture(),
            processes: self.maybe { $0.list { $0.process() } },
            exited: self.maybe {
                $0.list {
                    ExitedUsage(group: $0.group(), user: $0.maybe { $0.text() }, processes: 3, bytes: $0.bytes())
                }
            },
            sockets: self.maybe { $0.list { $0.socket() } },
            socketsOf: self.maybe { $0.list { Int32(truncatingIfNeeded: $0.count() & 0x7fff_ffff) } },
            socketsUnlisted: self.maybe { _ in 7 },
            endpoints: self.maybe { $0.list { $0.endpoint() } },
            interfaces: self.maybe {
                $0.list {
                    InterfaceUsage(
                        name: $0.text(),
                        sentBytes: $0.count(),
                        receivedBytes: $0.count(),
                        sentPackets: $0.maybe { $0.count() },
                        receivedPackets: $0.maybe { $0.count() },
                        sentBytesPerSecond: $0.maybe { $0.rate() },
                        receivedBytesPerSecond: $0.maybe { $0.rate() }
                    )
                }
            },
            totals: Totals(
                bytes: self.bytes(),
                rates: self.rates(),
                byScope: Dictionary(
                    self.list { ($0.pick(SocketScope.allCases).rawValue, $0.bytes()) },
                    uniquingKeysWith: { first, _ in first }
                ),
                byClass: self.maybe { random in
                    Dictionary(
                        random.list { ($0.className(), $0.bytes()) },
                        uniquingKeysWith: { first, _ in first }
                    )
                }
            ),
            alertsActive: self.maybe { Int(clamping: $0.count()) }
        )
    }

    mutating func alerts() -> AlertReport {
        AlertReport(
            host: self.text(),
            takenAt: self.time(),
            rules: 3,
            alerts: self.list {
                Alert(
                    rule: $0.text(),
                    kind: $0.pick(AlertKind.allCases),
                    match: $0.maybe { $0.text() },
                    process: $0.maybe { $0.group() },
                    user: $0.maybe { $0.text() },
                    role: $0.maybe { $0.pick(EndpointRole.allCases) },
                    host: $0.maybe { $0.text() },
                    route: $0.maybe { $0.text() },
                    destination: $0.maybe { $0.text() },
                    since: $0.time(),
                    bytes: $0.count(),
                    bytesPerSecond: $0.rate(),
                    requestsPerSecond: $0.maybe { $0.rate() },
                    pastRequestsPerSecond: $0.maybe { $0.rate() },
                    failedShare: $0.maybe { $0.rate() },
                    repeatedShare: $0.maybe { $0.rate() },
                    limitBytes: $0.maybe { $0.count() },
                    stepRatio: $0.maybe { $0.pick([0.5, 0.8, 1]) },
                    projectedBytes: $0.maybe { $0.count() }
                )
            }
        )
    }

    mutating func history() -> HistoryReport {
        var report = HistoryReport(
            host: self.text(),
            since: self.time(),
            until: self.time(),
            level: self.pick(HistoryLevel.allCases),
            by: self.list { $0.pick(HistoryDimension.allCases) },
            countedSeconds: self.count(),
            keptSince: self.maybe { $0.time() },
            rows: self.list { $0.historyRow() },
            others: self.maybe { $0.historyRow() },
            othersCount: self.maybe { Int(clamping: $0.count()) }
        )
        report.sums = self.amounts()
        (report.localSince, report.localUntil) = (self.maybe { $0.hostTime() }, self.maybe { $0.hostTime() })
        report.timeZone = self.maybe { $0.text() }
        return report
    }

    private mutating func hostTime() -> HostTime { HostTime(self.time(), offset: self.pick([0, 7_200, -12_600])) }

    private mutating func amounts() -> HistoryAmounts {
        switch self.pick([0, 1, 2]) {
        case 0: return .bytes(self.bytes())
        case 1:
            return .messages(
                EndpointCounts(
                    requests: self.count(),
                    ended: self.count(),
                    failures: self.count(),
                    sent: MessageParts(header: self.count(), body: self.count(), rest: self.count()),
                    received: MessageParts(header: self.count(), body: self.count(), rest: self.count())
                )
            )
        default:
            return .packets(
                InterfaceCounts(
                    sentBytes: self.count(),
                    receivedBytes: self.count(),
                    sentPackets: self.count(),
                    receivedPackets: self.count()
                )
            )
        }
    }

    mutating func month() -> MonthReport {
        var report = MonthReport(
            host: self.text(),
            month: self.pick((1...12).compactMap { CalendarMonth(year: 2026, month: $0) }),
            since: self.time(),
            until: self.time()
        )
        (report.localSince, report.localUntil) = (self.maybe { $0.hostTime() }, self.maybe { $0.hostTime() })
        report.timeZone = self.maybe { $0.text() }
        report.scope = self.maybe { $0.pick(SocketScope.allCases).rawValue }
        report.addressClass = self.maybe { $0.className() }
        (report.countedSeconds, report.missingSeconds) = (self.count(), self.count())
        report.totals = self.bytes()
        report.dailyAverage = self.maybe { $0.bytes() }
        report.topDay = self.maybe { MonthReport.Day(time: $0.time(), localTime: $0.hostTime(), bytes: $0.bytes()) }
        report.intervals = MonthReport.Intervals(total: self.count(), counted: self.count())
        report.percentile95 = self.maybe {
            MonthReport.BitRates(
                payloadSent: $0.count(),
                payloadReceived: $0.count(),
                wireSent: $0.maybe { $0.count() },
                wireReceived: $0.maybe { $0.count() }
            )
        }
        report.exceeding = self.maybe {
            MonthReport.Excess(
                bitsPerSecond: $0.count(),
                payloadSent: $0.count(),
                payloadReceived: $0.count(),
                wireSent: $0.maybe { $0.count() },
                wireReceived: $0.maybe { $0.count() }
            )
        }
        report.projection = self.maybe { $0.bytes() }
        return report
    }

    private mutating func historyRow() -> HistoryRow {
        var row = HistoryRow(
            time: self.maybe { $0.time() },
            localTime: self.maybe { $0.hostTime() },
            name: HistoryName(
                process: self.maybe { $0.text() },
                uid: self.maybe { UInt32(truncatingIfNeeded: $0.count()) },
                systemdUnit: self.maybe { $0.text() },
                containerID: self.maybe { $0.text() },
                scope: self.maybe { $0.pick(SocketScope.allCases).rawValue },
                addressClass: self.maybe { $0.className() },
                role: self.maybe { $0.pick(EndpointRole.allCases).rawValue },
                host: self.maybe { $0.text() },
                route: self.maybe { $0.text() },
                interface: self.maybe { $0.text() }
            ),
            amounts: self.amounts()
        )
        row.user = self.maybe { $0.text() }
        return row
    }

    mutating func report() -> DoctorReport {
        DoctorReport(
            capture: self.capture(),
            daemon: self.daemon(),
            host: self.host(),
            checks: self.list {
                DoctorReport.Check(
                    name: $0.text(),
                    status: $0.pick(DoctorReport.Status.allCases),
                    detail: $0.text(),
                    remedy: $0.maybe { $0.text() }
                )
            },
            limits: self.maybe {
                $0.list {
                    StatedLimit(
                        of: $0.text(),
                        process: $0.maybe { Int(clamping: $0.count()) },
                        user: $0.maybe { Int(clamping: $0.count()) },
                        all: $0.maybe { Int(clamping: $0.count()) },
                        beyond: $0.text()
                    )
                }
            },
            cost: self.maybe { $0.cost() }
        )
    }

    private mutating func cost() -> CaptureCost {
        CaptureCost(
            seconds: self.rate(),
            programs: self.list {
                CaptureCost.Program(
                    name: $0.text(),
                    hook: $0.text(),
                    growth: ProgramCounters(runs: $0.count(), nanoseconds: $0.count(), missed: $0.count()),
                    seconds: $0.pick([0, 0.1, 2, 10])
                )
            },
            statisticsWereOn: self.maybe { $0.chance() },
            emptyProgramNanoseconds: self.maybe { $0.rate() },
            statisticsNanoseconds: self.maybe { $0.rate() }
        )
    }
}
