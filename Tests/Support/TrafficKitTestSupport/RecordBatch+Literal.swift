package import TrafficKit
package import TrafficReport

extension RecordBatch: ExpressibleByArrayLiteral {
    package init(_ records: some Sequence<Report.Record>) {
        self.init()
        for record in records { self.append(record) }
    }

    package init(arrayLiteral records: Report.Record...) { self.init(records) }
}
