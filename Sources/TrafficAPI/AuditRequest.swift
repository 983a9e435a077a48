import HTTPTypes
import TrafficAudit
import TrafficModel

extension AuditReport {
    /// - Throws: ``AuditError/onlyForAll`` if the subject concerns all users and the viewer may not see all users.
    init(of subject: AuditSubject, in reading: Reading, for viewer: Viewer) throws(AuditError) {
        switch subject {
        case .host, .interface: if viewer != .administrator { throw .onlyForAll }
        case .process, .socket: break
        }
        try self.init(of: subject, in: reading.visible(to: viewer))
    }
}

extension QueryParameters {
    /// `interface=NAME`, `process=PID` or `socket=COOKIE`. Without any of them the subject is the host.
    func auditSubject() throws(Problem) -> AuditSubject {
        var subjects: [AuditSubject] = []
        if let name = self.value("interface") { subjects.append(.interface(name)) }
        if let text = self.value("process") {
            guard let pid = Int32(text), pid >= 0 else { throw .badParameter("process", "not a process id: \(text)") }
            subjects.append(.process(pid))
        }
        if let text = self.value("socket") {
            guard let cookie = UInt64(text) else { throw .badParameter("socket", "not a socket's cookie: \(text)") }
            subjects.append(.socket(SocketCookie(rawValue: cookie)))
        }
        guard subjects.count < 2 else {
            throw Problem(status: .badRequest, detail: "One of interface, process and socket, not several.")
        }
        return subjects.first ?? .host
    }
}

extension Problem {
    init(_ error: AuditError) {
        switch error {
        case .noSuchInterface, .noSuchProcess, .noSuchSocket: self.init(status: .notFound, detail: "\(error)")
        case .interfaceNotCounted: self.init(status: .conflict, detail: "\(error)")
        case .onlyForAll: self.init(status: .forbidden, detail: "\(error)")
        }
    }
}
