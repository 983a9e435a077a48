import TrafficModel

@testable import TrafficView

extension Fixture {
    static func snapshotWithEndpoints() throws -> Snapshot { try self.readingWithEndpoints().snapshot }

    /// The same host with a process that reports: two endpoints as a client, three as a server.
    static func readingWithEndpoints() throws -> Reading {
        var snapshot = try Self.snapshot(tick: 29, withSockets: true)
        let index = try snapshot.busiest()
        var processes = snapshot.processes ?? []
        processes[index].explained = processes[index].bytes.payload.total
        if let other = processes.indices.first(where: { $0 != index }) {
            let payload = processes[other].bytes.payload.total
            processes[other].explained = payload - payload / 3
        }
        snapshot.processes = processes
        let group = ProcessGroup(try snapshot.process(index).details)
        snapshot.endpoints = [
            Self.endpoint(group, .server, "shop.example", "/orders/{id}", requests: 12_345, sent: 40_000_000),
            Self.endpoint(group, .server, "shop.example", "/images/{name}", requests: 77, sent: 900_000_000),
            Self.endpoint(
                group,
                .server,
                "shop.example",
                "/login",
                requests: 40,
                failures: 12,
                sent: 50_000,
                p90: 1_830
            ),
            Self.endpoint(
                group,
                .client,
                "api.payments.example",
                "/v2/charges/{id}/captures",
                requests: 9,
                sent: 9_000
            ),
            Self.endpoint(group, .client, "日本.example", "/\u{1b}[31m", requests: 1, sent: 100, quality: .inferred),
            Self.endpoint(ProcessGroup(name: "other"), .client, "not.shown", "/", requests: 1, sent: 1),
        ]
        // Another process of the executable has the rest of the orders, and all of the images.
        snapshot.processes?[index].endpoints = [
            Self.own(.server, "shop.example", "/orders/{id}", requests: 345, sent: 1_000_000),
            Self.own(.server, "shop.example", "/login", requests: 40, failures: 12, sent: 50_000),
            Self.own(.client, "api.payments.example", "/v2/charges/{id}/captures", requests: 9, sent: 9_000),
            Self.own(.client, "日本.example", "/\u{1b}[31m", requests: 1, sent: 100, quality: .inferred),
            Self.own(.client, EndpointUsage.other, EndpointUsage.other, requests: 2, sent: 20),
        ]
        let grouped: [EndpointGrouping: [EndpointUsage]] = [
            .host: [
                Self.endpoint(group, .server, .host("shop.example"), requests: 12_462, failures: 12, sent: 940_050_000),
                Self.endpoint(group, .client, .host("api.payments.example"), requests: 9, sent: 9_000),
            ],
            .type: [
                Self.endpoint(group, .server, .content(.json), requests: 12_385, failures: 12, sent: 40_050_000),
                Self.endpoint(group, .server, .content(.image), requests: 77, sent: 900_000_000),
            ],
        ]
        return Reading(snapshot: snapshot, groupedEndpoints: grouped)
    }

    static func endpoint(
        _ group: ProcessGroup,
        _ role: EndpointRole,
        _ host: String,
        _ route: String,
        requests: UInt64,
        failures: UInt64 = 0,
        sent: UInt64,
        p90: UInt64 = 12_300,
        quality: JoinQuality = .exact
    ) -> EndpointUsage {
        let subject = EndpointSubject.route(host: host, route: route)
        return Self.endpoint(
            group,
            role,
            subject,
            requests: requests,
            failures: failures,
            sent: sent,
            p90: p90,
            quality: quality
        )
    }

    static func own(
        _ role: EndpointRole,
        _ host: String,
        _ route: String,
        requests: UInt64,
        failures: UInt64 = 0,
        sent: UInt64,
        quality: JoinQuality = .exact
    ) -> ProcessEndpoint {
        ProcessEndpoint(
            role: role,
            host: host,
            route: route,
            requests: requests,
            responses: requests,
            failures: failures,
            sent: sent,
            received: requests * 120,
            quality: quality
        )
    }

    private static func endpoint(
        _ group: ProcessGroup,
        _ role: EndpointRole,
        _ subject: EndpointSubject,
        requests: UInt64,
        failures: UInt64 = 0,
        sent: UInt64,
        p90: UInt64 = 12_300,
        quality: JoinQuality = .exact
    ) -> EndpointUsage {
        EndpointUsage(
            process: group,
            role: role,
            subject: subject,
            requests: requests,
            responses: requests,
            outcomes: failures == 0 ? [.ok: requests] : [.ok: requests - failures, .http5xx: failures],
            sent: MessageBytes(line: sent / 10, header: sent / 5, cookie: 7, body: sent - sent / 10 - sent / 5),
            received: MessageBytes(line: requests * 20, header: requests * 100),
            waste: .init(failed: failures * 300),
            duration: .init(count: requests, p50: 850, p90: p90, p99: 180_000, max: 1_900_000),
            phases: [.wait: .init(count: requests, sum: requests * 800, max: 1_000)],
            quality: quality
        )
    }

    static func exchange(_ number: UInt64, status: UInt16?, outcome: ExchangeOutcome?) throws -> ExchangeUsage {
        ExchangeUsage(
            process: Self.identity(812),
            processName: "nginx",
            exchange: number,
            role: .server,
            method: "GET",
            version: number == 4 ? nil : number == 3 ? .http2 : .http1_1,
            host: "shop.example",
            route: "/orders/{id}",
            status: status,
            outcome: outcome,
            startedAt: Self.time(Double(number)),
            duration: outcome.map { _ in 81_000 },
            phases: outcome == nil
                ? [:] : [.dns: 8_000, .connect: 8_100, .tls: 16_200, .wait: 40_000, .receive: 8_700],
            request: MessageBytes(line: 20, header: 100),
            response: status.map { _ in MessageBytes(line: 17, header: 90, body: 12_000) }
        )
    }
}

extension Snapshot {
    struct NoProcess: Error {}

    /// The index of the process with the highest rate, which is the first row of the list.
    fileprivate func busiest() throws -> Int {
        guard let processes = self.processes,
            let index = processes.indices.max(by: { processes[$0].rates.total < processes[$1].rates.total })
        else { throw NoProcess() }
        return index
    }

    fileprivate func process(_ index: Int) throws -> ProcessUsage {
        guard let processes = self.processes, processes.indices.contains(index) else { throw NoProcess() }
        return processes[index]
    }
}
